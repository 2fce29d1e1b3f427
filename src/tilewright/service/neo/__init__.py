"""SageMaker's compilation operations: requests checked and signed as Amazon's model of its service has them."""
