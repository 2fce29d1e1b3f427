"""What external code generators take over of a graph: regions marked, merged and made functions of their own."""
