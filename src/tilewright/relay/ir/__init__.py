"""The graph IR: expressions, types, modules, their text and JSON, typing, and the questions that all ask of graphs."""
