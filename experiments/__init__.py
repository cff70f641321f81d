"""One file an experiment: what is compared, on what data, how it is drawn."""
