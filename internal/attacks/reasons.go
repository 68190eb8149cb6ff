package attacks

// reasons says why an attack cannot be tested yet. A reason for an attack that has a test is an error.
var reasons = map[int]string{}

// open says what the tests of an attack still leave out, because the feature is missing.
var open = map[int]string{}
