"""Small forms of four studies, for a report of a few minutes, with as many seeds as their claims need."""
