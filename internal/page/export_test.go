package page

// MaxForm is maxForm for the tests outside of the package.
const MaxForm = maxForm
