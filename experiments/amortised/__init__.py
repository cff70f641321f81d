"""Networks that give the local posteriors: autoencoders through the one loop."""
