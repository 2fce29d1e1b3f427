"""Records of tuning: entries, files of them, the best of each task, and the logs of the classic stack."""
