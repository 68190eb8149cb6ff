package forwardauth

import (
	"net/http"
	"testing"
)

// OtherTransports are ways to ask that packages above this one have: what the upstream gets, or nil and the status.
var OtherTransports = map[string]func(t testing.TB, g *Gates) func(gate string, q Question) (upstream http.Header, status int){}
