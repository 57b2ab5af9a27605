"""Many runs at a time with Ray, on this machine or on a cluster."""
