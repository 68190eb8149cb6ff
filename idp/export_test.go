package idp

// MaxValues is maxValues for the tests outside of the package.
const MaxValues = maxValues
