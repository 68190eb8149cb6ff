// Package e2e tests the built binary from outside: a real Caddy, a real browser, and independent client libraries.
//
// The binary is $GATEHOUSE_BIN, or ../bin/gatehouse. Chromium, Node.js and PHP must be installed (make install).
package e2e
