# Install rules and the package for vendors.
