"""One module per page: it reads what the page shows, and the template of the same name shows it."""
