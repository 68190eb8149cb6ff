package saml

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // SAML bindings 3.6.4 identifies providers by it; it protects nothing
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

const (
	artifactType   = 4  // SAML bindings 3.6.4
	artifactLength = 44 // type, index, SHA-1 of the entity id, handle
)

// resolve fetches the answer that an artifact refers to. It returns the answer and the ID of the ArtifactResolve
// request, which the answer must name. Without an artifact resolution service in the provider's metadata it sends
// nothing. (SAML bindings 3.6.6)
func (p *Provider) resolve(ctx context.Context, m *idpMetadata, artifact string) (id string, raw []byte, err error) {
	to, err := artifactService(m, artifact)
	if err != nil {
		return "", nil, err
	}
	id, doc, err := p.artifactResolve(ctx, to, artifact)
	if err != nil {
		return "", nil, err
	}
	raw, err = p.call(ctx, to, doc)
	return id, raw, err
}

// artifactResolve returns a signed request for the answer of an artifact, in its envelope.
func (p *Provider) artifactResolve(ctx context.Context, to, artifact string) (id string, doc []byte, err error) {
	key, err := p.signer(ctx)
	if err != nil {
		return "", nil, err
	}
	if id, err = newID(p.env.Random); err != nil {
		return "", nil, err
	}
	request := schema.ArtifactResolve{
		ID: id, Version: version, IssueInstant: issueInstant(p.env.Now()), Issuer: newIssuer(p.entityID), Artifact: artifact,
	}
	e := request.Element()
	e.CreateAttr("Destination", to)
	if err := sign(e, key); err != nil {
		return "", nil, err
	}
	doc, err = write(enveloped(e))
	return id, doc, err
}

// enveloped puts a message into a SOAP envelope.
func enveloped(e *etree.Element) *etree.Element {
	envelope := etree.NewElement("soap:Envelope")
	envelope.CreateAttr("xmlns:soap", nsSOAP)
	envelope.CreateElement("soap:Body").AddChild(e)
	return envelope
}

// artifactService returns the address of the service that the artifact names. It is one of those in the provider's
// metadata.
func artifactService(m *idpMetadata, artifact string) (string, error) {
	if len(m.ARS) == 0 {
		return "", &idp.Invalid{Reason: "the answer is an artifact, but the provider's metadata has no artifact resolution service"}
	}
	if len(artifact) > 256 {
		return "", &idp.Invalid{Reason: "the artifact is too long"}
	}
	raw, err := decodeBase64(artifact)
	if err != nil || len(raw) != artifactLength || binary.BigEndian.Uint16(raw) != artifactType {
		return "", &idp.Invalid{Reason: "the artifact is not of type 4"}
	}
	source := sha1.Sum([]byte(m.EntityID)) //nolint:gosec // see the import
	if !bytes.Equal(raw[4:24], source[:]) {
		return "", &idp.Invalid{Reason: "the artifact belongs to another provider"}
	}
	to := m.ARS[int(binary.BigEndian.Uint16(raw[2:]))]
	if to == "" {
		return "", &idp.Invalid{Reason: "the artifact names a service that is not in the provider's metadata"}
	}
	return to, validEndpoint(to)
}

// post makes a SOAP request. The address comes from metadata. The caller closes the body of the answer.
func (p *Provider) post(ctx context.Context, to string, doc []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	req.Header.Set("SOAPAction", `"http://www.oasis-open.org/committees/security"`) // SAML bindings 3.2.3
	client, err := p.channel(ctx, req.URL)
	if err != nil {
		return nil, fmt.Errorf("resolve the artifact: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("resolve the artifact: %w", explained(err))
	}
	return res, nil
}

// call makes a SOAP request and returns the answer.
func (p *Provider) call(ctx context.Context, to string, doc []byte) ([]byte, error) {
	res, err := p.post(ctx, to, doc)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("resolve the artifact: the answer is %s", res.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, safexml.MaxMessage+1))
	if err != nil {
		return nil, fmt.Errorf("resolve the artifact: %w", err)
	}
	if len(raw) > safexml.MaxMessage {
		return nil, errors.New("resolve the artifact: the answer is too long")
	}
	return raw, nil
}
