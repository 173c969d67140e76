"""WebShop: an own engine that shows, searches and scores as the original does."""
