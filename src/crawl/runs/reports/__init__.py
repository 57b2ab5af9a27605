"""Pages about runs, made from what is in their folders alone."""
