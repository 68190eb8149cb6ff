package saml

import (
	"context"
	"crypto/sha1" //nolint:gosec // SAML bindings 3.6.4 identifies providers by it; it protects nothing
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
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
	m, err := p.metadata.fetchAnd(ctx, Version{}, func(res *http.Response) { connection.Connection(res.TLS, res.Header, now) })
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
	if !p.checkBackChannel(ctx, &steps, m, now) {
		return steps
	}
	for _, name := range slices.Compact(slices.Concat(names(p.cfg.Sign), names(p.cfg.Decrypt))) {
		if key, err := p.env.KeyPair(ctx, name); err == nil && key.Certificate != nil {
			steps.Ends("our certificate "+name, key.Certificate, now)
		}
	}
	steps.OK("our metadata", "the provider finds them at %s", p.at("metadata"))
	return steps
}

// checkBackChannel asks each artifact resolution service about an artifact that it cannot know, where answers come by
// artifact. It returns whether the provider can go on.
func (p *Provider) checkBackChannel(ctx context.Context, steps *idp.Steps, m *idpMetadata, now time.Time) bool {
	if !p.byArtifact(m) {
		return true
	}
	if p.cfg.ClientKey != "" {
		key, err := p.clientKey(ctx)
		if err != nil {
			steps.Fail("our client certificate", err, "add a key pair of this name, with its private key and its certificate")
			return false
		}
		steps.Ends("our client certificate "+p.cfg.ClientKey, key.Certificate, now)
	}
	if p.cfg.ServerCertificate != "" {
		pinned, err := p.env.Certificate(ctx, p.cfg.ServerCertificate)
		if err != nil {
			steps.Fail("certificate of the back channel", err, "add a key pair of this name with the certificate of the provider's server")
			return false
		}
		steps.Ends("certificate of the back channel "+p.cfg.ServerCertificate, pinned, now)
	}
	if len(m.ARS) == 0 {
		steps.Fail("artifact service", errors.New("the provider's metadata has none, but answers come by artifact"),
			"ask the provider for metadata with an ArtifactResolutionService")
		return false
	}
	for _, index := range slices.Sorted(maps.Keys(m.ARS)) {
		to := m.ARS[index]
		switch status, err := p.probe(ctx, m, index, to); {
		case err != nil:
			steps.Fail("artifact service", err,
				"compare client_key with the certificate that the provider has for us, and server_certificate with that of its server")
			return false
		case status != http.StatusOK && status != http.StatusInternalServerError: // the latter is a SOAP fault, which is an answer
			steps.Fail("artifact service", fmt.Errorf("%s answers %d", to, status),
				"the provider may not know our client certificate or our metadata")
			return false
		}
		steps.OK("artifact service", "%s answers us", to)
	}
	return true
}

// probe resolves an artifact that no one has issued, and returns the status of the answer.
func (p *Provider) probe(ctx context.Context, m *idpMetadata, index int, to string) (int, error) {
	artifact := binary.BigEndian.AppendUint16([]byte{0, artifactType}, uint16(index)) //nolint:gosec // read as 16 bits
	source := sha1.Sum([]byte(m.EntityID))                                            //nolint:gosec // SAML bindings 3.6.4
	artifact = append(append(artifact, source[:]...), make([]byte, 20)...)
	if _, err := io.ReadFull(p.env.Random, artifact[24:]); err != nil {
		return 0, err
	}
	_, doc, err := p.artifactResolve(ctx, to, base64.StdEncoding.EncodeToString(artifact))
	if err != nil {
		return 0, err
	}
	res, err := p.post(ctx, to, doc)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}

// checkMetadata reports what metadata that can be read say of themselves.
func (p *Provider) checkMetadata(steps *idp.Steps, m *idpMetadata, now time.Time) {
	steps.OK("metadata", "of %s", m.EntityID)
	switch {
	case p.cfg.MetadataCertificate != "":
		steps.OK("signature of the metadata", "by metadata_certificate")
	case strings.HasPrefix(strings.ToLower(p.cfg.Metadata), "http:"):
		steps.Warn("signature of the metadata", "not demanded, and the metadata are fetched without encryption",
			"use https, or name metadata_certificate")
	}
	if until := m.ValidUntil; !until.IsZero() {
		if day := until.UTC().Format(time.DateOnly); until.Sub(now) < 24*time.Hour {
			steps.Warn("end of the metadata", "they are valid until "+until.UTC().Format(time.RFC3339),
				"see that the provider publishes new ones in time")
		} else {
			steps.OK("end of the metadata", "they are valid until %s", day)
		}
	}
}
