"""The page of the service: HTML, styles and JavaScript modules, served as they are, with nothing from elsewhere."""
