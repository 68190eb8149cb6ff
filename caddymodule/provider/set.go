package provider

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// methodTypes are the types of login methods by the kinds of providers in the Caddyfile.
var methodTypes = map[string]string{
	"discord": settings.TypeOIDC, "github": settings.TypeOIDC, "oauth2": settings.TypeOIDC,
	"apple": settings.TypeApple, "azure_ad_b2c": settings.TypeAzureADB2C, "itsme": settings.TypeItsme, "google": settings.TypeGoogle,
	"microsoft": settings.TypeMicrosoft,
	"facebook":  settings.TypeFacebook, "linkedin": settings.TypeLinkedIn, "twitter": settings.TypeTwitter,
	"saml": settings.TypeSAML, "oidc": settings.TypeOIDC, "ldap": settings.TypeLDAP, "kerberos": settings.TypeKerberos,
	"header": settings.TypeHeader,
}

// providerKinds returns the kind of each provider. It is called before the modules are loaded, which removes their
// configuration.
func providerKinds(raw caddy.ModuleMap) map[string]string {
	kinds := map[string]string{}
	for id, one := range raw {
		var m struct {
			Module string `json:"module"`
		}
		if json.Unmarshal(one, &m) == nil {
			kinds[id] = m.Module
		}
	}
	return kinds
}

// signers are the options of providers that name key pairs of the configuration for their private keys, keyMembers
// are all that name some.
var (
	signers    = []string{"sign", "decrypt", "key", "client_key"}
	keyMembers = append(slices.Clone(signers), "server_certificate")
)

// providerKeys returns the users of key pairs by some of the options, such as "idp partner", by the names of the pairs.
// It is called before the modules are loaded, which removes their configuration.
func providerKeys(raw caddy.ModuleMap, options []string) map[string][]string {
	repl := caddy.NewReplacer()
	users := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw[id], &members) != nil {
			continue
		}
		for _, m := range options {
			var names []string
			if json.Unmarshal(members[m], &names) != nil {
				var name string
				if json.Unmarshal(members[m], &name) != nil {
					continue
				}
				names = []string{name}
			}
			for _, name := range names {
				name = repl.ReplaceAll(name, "")
				if by := "idp " + id; !slices.Contains(users[name], by) {
					users[name] = append(users[name], by)
				}
			}
		}
	}
	return users
}

// Set holds the identity providers of the configuration file.
type Set struct {
	kinds    map[string]string   // by the ids of the providers
	keyUsers map[string][]string // who uses a key pair, by its name
	signers  map[string][]string // who needs its private key, by its name
	all      map[string]IDP
	remotes  map[string]remoteIDP // those with RemoteOptions
	icons    map[string][]byte
	groups   []string // that providers give people
	faults   map[string][]caddyfileutil.Fault
}

// NewSet reads the parts of the configuration that are needed later. It is called before the modules are loaded, which
// removes it.
func NewSet(raw caddy.ModuleMap) *Set {
	return &Set{
		kinds: providerKinds(raw), keyUsers: providerKeys(raw, keyMembers), signers: providerKeys(raw, signers), all: map[string]IDP{},
		remotes: map[string]remoteIDP{}, icons: map[string][]byte{}, faults: map[string][]caddyfileutil.Fault{},
	}
}

// Add adds a provisioned provider, and returns it as authz and identity need it.
func (s *Set) Add(id string, p IDP) (clientstore.Provider, federation.Provider) {
	s.all[id] = p
	o := p.Common()
	known := clientstore.Provider{ID: id, Disabled: o.Disabled}
	provider := federation.Provider{ID: id, Name: o.Name, Disabled: o.Disabled, Source: p.Source(), Assurance: o.assurance}
	s.faults[id] = o.faults
	if directory, ok := p.(interface{ mappedGroups() []string }); ok {
		s.groups = append(s.groups, directory.mappedGroups()...)
	}
	far, ok := p.(remoteIDP)
	if !ok {
		known.Parameters = provider.Source.Parameters()
		return known, provider
	}
	r := far.common()
	provider.Path, provider.CoupleEmail, provider.Domains, provider.Timeout = far.path(), r.Couple == "email",
		r.remote.domains, r.remote.timeout
	if old, ok := p.(interface{ migrates() bool }); ok {
		provider.Migrates = old.migrates()
	}
	s.remotes[id] = far
	if file, ok := p.(*SAMLIDP); ok {
		for _, w := range file.cfg.Warnings(time.Now()) {
			s.faults[id] = append(s.faults[id], caddyfileutil.Fault{Watched: true, Option: "metadata", Reason: w.Reason, Fix: w.Advice})
		}
	}
	if len(r.remote.icon) > 0 {
		s.icons[id] = r.remote.icon
	}
	return known, provider
}

// Address returns the address that a provider is known by: its issuer, or that of its metadata. "": it has none.
func (s *Set) Address(id string) string {
	switch p := s.remotes[id].(type) {
	case *OIDCIDP:
		return p.cfg.Issuer
	case *SAMLIDP:
		return p.cfg.Metadata
	}
	return ""
}

// Faults returns the problems with the files of a provider.
func (s *Set) Faults(id string) []caddyfileutil.Fault { return s.faults[id] }

// Icons returns the pictures of the providers by their ids.
func (s *Set) Icons() map[string][]byte { return s.icons }

// Groups returns the groups that the mappings of providers give people.
func (s *Set) Groups() []string { return s.groups }

// KeyUsers returns who uses a key pair, such as "idp partner".
func (s *Set) KeyUsers(keyPair string) []string { return s.keyUsers[keyPair] }

// Signers returns who needs the private key of a key pair.
func (s *Set) Signers(keyPair string) []string { return s.signers[keyPair] }

// MethodType returns the type as which the configuration API shows a provider. A module that is not built in counts as
// header.
func (s *Set) MethodType(id string) string {
	if t := methodTypes[s.kinds[id]]; t != "" {
		return t
	}
	return settings.TypeHeader
}
