"""τ²-bench: customer service by tool calls, alone with a ticket or in talk with a simulated user."""
