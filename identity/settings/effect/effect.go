// Package effect describes what each member of the configuration units does.
package effect

import (
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// Effect is the effect of a member. Every member of every unit has one. docs/configuration is made from these tables,
// and a member whose function does not exist yet must keep its default.
type Effect struct {
	// Path is that of a member, or of an object with .* for all its members.
	Path string
	// Does says what the member changes. It is empty while the member does nothing.
	Does string
	// Test is the test that shows it, without the prefix Test.
	Test string
	// Later says what is missing before the member can do anything. Its code is that of a problem.
	Later *coded.Error
}

// All has the effect of each member, by units, each of which has a file. (docs/configuration)
var All = slices.Concat(attributes, customMessages, policies, messages, features, loginMethods, organisations, redirects, stepUp,
	uiExtension, emailNotifications, passwordPolicy, profile)

func does(path, what, test string) Effect { return Effect{Path: path, Does: what, Test: test} }

func later(path string, missing *coded.Error) Effect { return Effect{Path: path, Later: missing} }

// The functions that are missing.
var (
	// NoInstagram and NoIDIN are the reasons of types that wait for others than us.
	NoInstagram = coded.New("instagram", "Instagram signs no one in: Meta ended the API for that (Basic Display) on 4 December 2024. Use FACEBOOK; it can be stored with enabled false")
	NoIDIN      = coded.New("idin", "iDIN needs a contract with an acquiring bank, its addresses and its certificates, and it cannot be tested without them; it can be stored with enabled false")

	noBSNk = coded.New("bsnk", "it opens polymorphic identities and pseudonyms, by private keys that BSNk issues to a service under contract, on a curve that the key pairs cannot hold; brokers that encrypt for encryption_key_id need none")
)

// Of returns the row of a member: its own, or that of an object around it.
func Of(path string) (Effect, bool) {
	for _, e := range All {
		if e.Path == path || strings.HasSuffix(e.Path, ".*") && strings.HasPrefix(path, strings.TrimSuffix(e.Path, "*")) {
			return e, true
		}
	}
	return Effect{}, false
}
