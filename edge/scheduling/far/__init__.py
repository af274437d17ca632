"""What is known of the links, and when one is left and tried again: estimates, forecasts, breaker, budgets."""
