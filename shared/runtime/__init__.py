"""What all daemons run on: settings, logging, the HTTP app, sockets, files."""
