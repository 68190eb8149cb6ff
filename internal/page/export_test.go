package page

// CheckMessage is checkMessage for the tests outside of the package.
var CheckMessage = checkMessage

// MaxForm is maxForm for the tests outside of the package.
const MaxForm = maxForm
