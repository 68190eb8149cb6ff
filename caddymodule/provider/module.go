// Package provider makes identity providers from the Caddyfile and the configuration API. It has the modules
// gatehouse.idp.* and the manager of the running providers; the protocols are in package idp and below.
package provider

import (
	"errors"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/idp"
)

// Namespace holds the identity providers. Another package can add one.
const Namespace = "gatehouse.idp"

// OwnID is the identity service itself, which needs no block.
const OwnID = "identity"

// IDP is a guest module of the namespace gatehouse.idp. It is ready after Provision and opens nothing before the app
// starts.
type IDP interface {
	// Source is the provider itself, which implements one of the interfaces of package idp.
	Source() idp.Provider
	// Common are the options that every provider has.
	Common() IDPOptions
}

// IDPOptions are the options that every identity provider has.
type IDPOptions struct {
	// What people and events call the provider. Default: its id.
	Name string `json:"name,omitempty"`
	// Whether the provider is switched off, and signs in no one. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// The identity assurance level of everybody who signs in there, 1 to 4. Default: 0, the provider assures nothing.
	Assured caddyfileutil.Count `json:"identity_assurance_level,omitempty"`

	assurance int
	faults    []caddyfileutil.Fault
}

// Common implements IDP.
func (o *IDPOptions) Common() IDPOptions { return *o }

// with adds the words of these options to those of a provider.
func (o *IDPOptions) with(own caddyfileutil.Subdirectives) caddyfileutil.Subdirectives {
	own["name"], own["disabled"] = caddyfileutil.Text(&o.Name), caddyfileutil.Flag(&o.Disabled)
	own["assurance"] = caddyfileutil.Value(&o.Assured, caddyfileutil.CheckLevel)
	return own
}

// assures resolves how well the provider knows who its people are.
func (o *IDPOptions) assures(r *caddyfileutil.Resolver) {
	o.assurance = r.Count("assurance", o.Assured, caddyfileutil.CheckLevel)
}

// CheckID accepts the id of a new provider.
func CheckID(s string) error {
	if s == OwnID {
		return errors.New("identity is the identity service itself: choose another id")
	}
	return caddyfileutil.CheckProviderID(s)
}
