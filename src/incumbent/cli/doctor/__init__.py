"""`doctor`: is the server fit for elections? Nothing is imported here."""
