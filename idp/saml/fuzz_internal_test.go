package saml

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// FuzzMessages checks that no unsigned message is accepted by any binding, and that no message causes a panic.
func FuzzMessages(f *testing.F) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	p := samltest.New("https://idp.example/entity", func() time.Time { return now })
	m, err := parseMetadata(p.Metadata(), nil, now)
	if err != nil {
		f.Fatal(err)
	}
	v := &verifier{
		entityID: "sp", now: p.Now, once: func(context.Context, string, time.Time) error { return nil },
		pause: func(context.Context, time.Duration) {},
	}
	answer := samltest.Answer{SP: "sp", ACS: "to", Request: "_q", NameID: "anna"}
	response := string(p.Response(answer))
	f.Add(response)
	f.Add(strings.NewReplacer("samlp:Response", "samlp:LogoutRequest").Replace(response))
	f.Add(`<s:Envelope xmlns:s="` + nsSOAP + `"><s:Body><samlp:ArtifactResponse xmlns:samlp="` + nsProtocol + `">` + response +
		`</samlp:ArtifactResponse></s:Body></s:Envelope>`)
	f.Add(`<p:LogoutResponse xmlns:p="` + nsProtocol +
		`" ID="a" Version="2.0" IssueInstant="2026-05-06T07:08:09Z" Destination="to" InResponseTo="_q"/>`)
	f.Fuzz(func(t *testing.T, raw string) {
		ctx := context.Background()
		if out, err := v.logoutMessage(ctx, []byte(raw), logoutExpectation{Provider: m, Destination: "to", Request: "_q"}); err == nil {
			t.Errorf("logoutMessage = %+v", out)
		}
		// The content is the responsibility of the signer.
		_, _ = v.logoutMessage(ctx, []byte(raw), logoutExpectation{Provider: m, Destination: "to", Request: "_q", Signed: true})
		want := expectation{Provider: m, Destination: "to", Request: "_q"}
		if out, err := v.artifactResponse(ctx, []byte(raw), "_q", want); err == nil {
			t.Errorf("artifactResponse = %+v", out)
		}
		if out, err := v.response(ctx, []byte(raw), want); err == nil {
			t.Errorf("response = %+v", out)
		}
	})
}
