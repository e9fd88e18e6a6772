"""What the hyperhive surface decides: wording, cutting, when a grant counts. No transport in sight."""
