package forwardauth

// secretHeader vouches for a proxy.
const secretHeader = "Gatehouse-Secret"
