package web

// MaxForm is maxForm for the tests outside of the package.
const MaxForm = maxForm

// ReadMessages is readMessages for the tests outside of the package.
var ReadMessages = readMessages
