package settings

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// PageOrganisations returns the organisations by their applications: a service provider of an organisation is the
// client of the same id. It returns the same pointer while nothing changes. When storage cannot be read it returns the
// last ones, or nil.
func (s *Service) PageOrganisations(ctx context.Context) *web.Organisations {
	list, err := s.owners.ofPage(ctx, s, func(u *Units) (*web.Organisations, error) { return u.ofClients(), nil })
	if err != nil {
		s.log.Debug("organisations not read", zap.Error(err))
	}
	return list
}

// ofClients returns the organisations by their applications.
func (u *Units) ofClients() *web.Organisations {
	byClient := map[string]*web.Organisation{}
	for i := range u.Organisations {
		o := &u.Organisations[i]
		shown := &web.Organisation{
			Name: o.Name, SiteURL: o.SiteURL, SupportURL: o.SupportURL, SupportEmail: o.SupportEmail,
			Message: o.MigrationMessageHTML, Logo: o.logo(),
			Private: o.IsPrivate, Language: o.PreferredLanguage,
		}
		for id := range o.ServiceProviders {
			byClient[id] = shown
		}
	}
	return web.NewOrganisations(byClient)
}

// OrganisationOf returns the organisation that an application belongs to, by the id of its client, or nil. Of several
// organisations that list the client the last one counts.
func (u *Units) OrganisationOf(client string) *Organisation {
	for i := range slices.Backward(u.Organisations) {
		if _, ok := u.Organisations[i].ServiceProviders[client]; ok {
			return &u.Organisations[i]
		}
	}
	return nil
}

// RequiredLevel returns the level that every sign-in for an application needs, by the id of its client; 0 is any level.
// Of several organisations that list the client the strictest counts.
func (u *Units) RequiredLevel(client string) (level int) {
	for i := range u.Organisations {
		level = max(level, u.Organisations[i].ServiceProviders[client].RequiredAuthenticationLevel)
	}
	return level
}

// secondFactors are the values of second_factor, the strictest last.
var secondFactors = []string{"", "ON_DEMAND", "WHEN_SET_UP", "ALWAYS"}

// SecondFactor returns when a sign-in for an application needs a second step, by the id of its client: what its service
// provider says, of several the strictest, else what the client says, else the settings. "": none of them says.
func (u *Units) SecondFactor(client, says string) string {
	strictest := 0
	for i := range u.Organisations {
		strictest = max(strictest, slices.Index(secondFactors, u.Organisations[i].ServiceProviders[client].SecondFactor))
	}
	return cmp.Or(strings.ToLower(secondFactors[strictest]), says, strings.ToLower(u.StepUp.SecondFactor))
}

// RequiredAssurance returns the identity assurance level that a sign-in for an application needs, by the id of its
// client; 0 is any level. Of several organisations the strictest counts.
func (u *Units) RequiredAssurance(client string) (level int) {
	for i := range u.Organisations {
		level = max(level, u.Organisations[i].ServiceProviders[client].RequiredIdentityAssuranceLevel)
	}
	return level
}

// The protocols by which an application signs people in.
const (
	ProtocolSAML   = "SAML"
	ProtocolOpenID = "OIDC"
)

// protocols are the values of type, in capitals.
var protocols = map[string]string{"SAML": ProtocolSAML, "OIDC": ProtocolOpenID, "OPENID_CONNECT": ProtocolOpenID}

// protocol returns the protocol that the type of a service provider names, and what is wrong with it. A wrong type
// names none. With SAML and without metadata no one signs in there yet.
func (sp *ServiceProvider) protocol() (protocol string, wrong error) {
	protocol, known := protocols[strings.ToUpper(sp.Type)]
	switch {
	case sp.Type == "":
	case !known:
		return "", coded.Errorf("one_of", "list", "must be %s or empty", "SAML, OIDC, OPENID_CONNECT")
	case protocol == ProtocolOpenID && sp.SAMLMetadata != "":
		return "", coded.New("openid_metadata", "is OpenID Connect, where there is no saml_metadata")
	}
	return protocol, nil
}

// WithoutMetadata returns the ids of the service providers that are SAML and whose metadata has not been set yet.
func (u *Units) WithoutMetadata() (ids []string) {
	for i := range u.Organisations {
		for id, sp := range u.Organisations[i].ServiceProviders {
			if named, _ := sp.protocol(); named == ProtocolSAML && sp.SAMLMetadata == "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// SignsInBy reports whether an application signs people in by a protocol, by the id of its client. Each organisation
// that lists the client can exclude the other protocol by a type. (docs/decisions/pages.md#organisation-protocols)
func (u *Units) SignsInBy(client, protocol string) bool {
	for i := range u.Organisations {
		sp := u.Organisations[i].ServiceProviders[client]
		named, _ := sp.protocol()
		if named == ProtocolSAML && sp.SAMLMetadata == "" {
			continue // it has no effect before it has metadata
		}
		if named != "" && named != protocol {
			return false
		}
	}
	return true
}

// TrustsBrowsers reports whether a trusted browser counts for the second factor at an application, by the id of its
// client. Of several organisations that list the client each has to say so.
func (u *Units) TrustsBrowsers(client string) (trusts bool) {
	for i := range u.Organisations {
		sp, listed := u.Organisations[i].ServiceProviders[client]
		if listed && !strings.EqualFold(sp.UseTrustedDevice, "true") {
			return false
		}
		trusts = trusts || listed
	}
	return trusts
}

// logo returns the square logo, otherwise the landscape one, otherwise nil.
func (o *Organisation) logo() []byte {
	for _, s := range []string{o.LogoSquareBase64, o.LogoLandscapeBase64} {
		if raw, err := base64.StdEncoding.DecodeString(s); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return nil
}
