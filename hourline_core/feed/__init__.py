"""What has changed, for those who follow it: derived from what is published, with a position for each follower."""
