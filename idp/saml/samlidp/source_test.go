package samlidp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
)

// TestAnotherEntity: metadata that suddenly name another entity are not taken. Their author could otherwise pass
// for another service provider.
func TestAnotherEntity(t *testing.T) {
	t.Parallel()
	doc := func(entity, acs string) string {
		return `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="` + entity +
			`"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` +
			`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="` + acs +
			`" index="0"/></md:SPSSODescriptor></md:EntityDescriptor>`
	}
	var published atomic.Value
	published.Store(doc(entity, service))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, strings.NewReader(published.Load().(string))) //nolint:errcheck,forcetypeassert // a string
	}))
	t.Cleanup(server.Close)
	var later atomic.Int64
	source, err := samlidp.NewSource(server.URL, samlidp.Options{}, server.Client(),
		func() time.Time { return now.Add(time.Duration(later.Load())) }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	read := func(after time.Duration, publish string) *samlidp.Metadata {
		t.Helper()
		published.Store(publish)
		later.Store(int64(after))
		m, err := source.Get(t.Context())
		if err != nil || m.EntityID != entity {
			t.Fatalf("after %s: %+v, %v, want metadata of %s", after, m, err, entity)
		}
		return m
	}
	read(0, doc(entity, service))
	for i := range 5 { // one attempt a minute
		if m := read(2*time.Hour+time.Duration(i)*2*time.Minute,
			doc("https://bank.example.com/saml", "https://bank.example.com/acs")); m.Services[0].Location != service {
			t.Fatalf("metadata of another entity are taken: %+v", m)
		}
	}
	for i := range 20 {
		if read(4*time.Hour+time.Duration(i)*2*time.Minute, doc(entity, service+"/new")).Services[0].Location == service+"/new" {
			return
		}
	}
	t.Error("metadata of the same entity are not read again")
}

// TestReadBeforeItWasUp: a service provider that was down when its metadata was read for the findings serves people as
// soon as it is up, and is named until then.
func TestReadBeforeItWasUp(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="`+entity+ //nolint:errcheck // the client went away
			`"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">`+
			`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="`+service+
			`" index="0"/></md:SPSSODescriptor></md:EntityDescriptor>`)
	}))
	t.Cleanup(server.Close)
	source, err := samlidp.NewSource(server.URL, samlidp.Options{}, server.Client(), func() time.Time { return now }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	source.Refresh()
	if said := fmt.Sprint(source.Warnings(t.Context())); !strings.Contains(said, "503") {
		t.Errorf("Warnings = %q, want the status 503", said)
	}
	up.Store(true)
	if m, err := source.Get(t.Context()); err != nil || m.EntityID != entity {
		t.Errorf("Get = %+v, %v, want the metadata of %s", m, err, entity)
	}
	if said := source.Warnings(t.Context()); said != nil {
		t.Errorf("Warnings = %q, want none", said)
	}
}
