package saml

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Check implements idp.Checker: it fetches the metadata and opens the key pairs.
func (p *Provider) Check(ctx context.Context) (steps idp.Steps) {
	now := p.env.Now()
	var connection idp.Steps
	m, err := p.metadata.fetchAnd(ctx, func(res *http.Response) { connection.Connection(res.TLS, res.Header, now) })
	if err != nil {
		steps.Fail("metadata", err, "")
		return append(steps, connection...)
	}
	p.checkMetadata(&steps, m, now)
	steps = append(steps, connection...)
	for i, c := range m.Signing {
		steps.Ends(fmt.Sprintf("signing certificate %d", i+1), c, now)
	}
	// One certificate that holds is enough, such as when they are replaced.
	if err := m.usable(now); err == nil {
		for i, s := range steps {
			if s.Result == idp.StepFailed && strings.HasPrefix(s.Name, "signing certificate") {
				steps[i].Result = idp.StepWarning
			}
		}
	} else {
		steps.Fail("sign-in", err, "ask the provider for metadata that are up to date")
	}
	for _, binding := range []string{bindingRedirect, bindingPost} {
		if at := m.SSO[binding]; at != "" {
			steps.OK("sign-in address", "%s", at)
		}
	}
	if _, err := p.ownMetadata(ctx); err != nil {
		steps.Fail("key pairs", err, "add a key pair of this name with its private key")
		return steps
	}
	for _, name := range slices.Compact(slices.Concat(names(p.cfg.Sign), names(p.cfg.Decrypt))) {
		if key, err := p.env.KeyPair(ctx, name); err == nil && key.Certificate != nil {
			steps.Ends("our certificate "+name, key.Certificate, now)
		}
	}
	steps.OK("our metadata", "the provider finds them at %s", p.entityID)
	return steps
}

// checkMetadata reports what metadata that can be read say of themselves.
func (p *Provider) checkMetadata(steps *idp.Steps, m *idpMetadata, now time.Time) {
	steps.OK("metadata", "of %s", m.EntityID)
	switch {
	case p.metadata.trust != nil:
		steps.OK("signature of the metadata", "by metadata_certificate")
	case strings.HasPrefix(strings.ToLower(p.cfg.Metadata), "http:"):
		steps.Warn("signature of the metadata", "not demanded, and the metadata are fetched without encryption", "use https, or name metadata_certificate")
	}
	if until := m.ValidUntil; !until.IsZero() {
		if day := until.UTC().Format(time.DateOnly); until.Sub(now) < 24*time.Hour {
			steps.Warn("end of the metadata", "they are valid until "+until.UTC().Format(time.RFC3339), "see that the provider publishes new ones in time")
		} else {
			steps.OK("end of the metadata", "they are valid until %s", day)
		}
	}
}
