package saml

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
)

func artifactOf(id string, index byte) string {
	source := sha1.Sum([]byte(id))
	return base64.StdEncoding.EncodeToString(append(append([]byte{0, artifactType, 0, index}, source[:]...), bytes.Repeat([]byte{7}, 20)...))
}

// artifactArrives is the callback of a browser with an artifact.
func (w *world) artifactArrives(artifact string) *http.Request {
	return httptest.NewRequestWithContext(w.t.Context(), http.MethodGet,
		w.at("acs")+"?"+url.Values{paramArtifact: {artifact}, paramRelay: {flowID}}.Encode(), nil)
}

// resolver answers an ArtifactResolve with the output of wrap for a signed answer.
type resolver struct {
	w       *world
	request string // of the sign-in
	asked   []*http.Request
	wrap    func(resolve, answer *etree.Element) string
}

func envelope(resolve, answer *etree.Element) string {
	r := message("ArtifactResponse", "_ar1", entity, "", start)
	r.CreateAttr("InResponseTo", resolve.SelectAttrValue("ID", ""))
	r.CreateElement("samlp:Status").CreateElement("samlp:StatusCode").CreateAttr("Value", statusSuccess)
	r.AddChild(answer)
	e := etree.NewElement("soap:Envelope")
	e.CreateAttr("xmlns:soap", nsSOAP)
	e.CreateElement("soap:Body").AddChild(r)
	raw, err := write(e)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (s *resolver) serve(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	resolve := parsed(s.w.t, raw).FindElement("./Body/ArtifactResolve")
	if resolve == nil || resolve.SelectElement("Signature") == nil || resolve.SelectElement("Artifact").Text() == "" {
		s.w.t.Errorf("the request is %s", raw)
	}
	answer := s.w.answerTo(s.request)
	if err := sign(answer, idpKey()); err != nil {
		return nil, err
	}
	return answerOf(http.StatusOK, s.wrap(resolve, answer)), nil
}

func TestArtifact(t *testing.T) {
	t.Parallel()
	s := &resolver{wrap: envelope}
	w := newWorld(t, Config{Artifact: true, Mapping: fullMapping}, func(w *world) { s.w, w.check = w, s.serve })
	request, _, state := w.begin(idp.Request{MaxAge: -1})
	s.request = request.SelectAttrValue("ID", "")
	r := w.artifactArrives(artifactOf(entity, 7))
	if got, err := w.FlowOf(r); got != flowID || err != nil {
		t.Errorf("FlowOf = %q, %v", got, err)
	}
	id, err := w.Finish(t.Context(), state, r)
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != "p-1234" || id.Email != "alice@example.org" {
		t.Errorf("Finish = %+v", id)
	}
	if len(s.asked) != 1 || s.asked[0].URL.String() != arsAt || s.asked[0].Header.Get("SOAPAction") == "" {
		t.Errorf("asked %d times, want once at %s", len(s.asked), arsAt)
	}
}

// TestArtifactClient: a service on the configured host of the metadata is called with the trusted client, others with
// the one that calls only public hosts.
func TestArtifactClient(t *testing.T) {
	t.Parallel()
	s := &resolver{wrap: envelope}
	var metadata, resolving int
	w := newWorld(t, Config{Metadata: metadataURL}, func(w *world) {
		s.w = w
		w.calls = func(r *http.Request) (*http.Response, error) {
			if r.URL.String() == metadataURL {
				metadata++
				return answerOf(http.StatusOK, metadataOf(entity, idpKey())), nil
			}
			resolving++
			return s.serve(r)
		}
	})
	request, _, state := w.begin(idp.Request{MaxAge: -1})
	s.request = request.SelectAttrValue("ID", "")
	if _, err := w.Finish(t.Context(), state, w.artifactArrives(artifactOf(entity, 7))); err != nil || metadata != 1 || resolving != 1 {
		t.Errorf("Finish = %v after %d requests, want one by the trusted client", err, resolving)
	}
}

func TestArtifactRefused(t *testing.T) {
	t.Parallel()
	ars := `<md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location="` + arsAt + `" index="7"/>`
	for _, tt := range []struct {
		name     string
		metadata string
		artifact string
		wrap     func(resolve, answer *etree.Element) string
		asked    int
	}{
		{"attack 168: no artifact service", without(metadataOf(entity, idpKey()), ars), artifactOf(entity, 7), nil, 0},
		{"attack 168: another provider's artifact", "", artifactOf("https://other.example.com", 7), nil, 0},
		{"attack 168: an unknown service", "", artifactOf(entity, 8), nil, 0},
		{"attack 168: not an artifact", "", "https://evil.example/", nil, 0},
		{"attack 168: a long artifact", "", strings.Repeat("AAQA", 100_000), nil, 0},
		{"attack 168: empty", "", "", nil, 0},
		{
			"attack 168: an answer of 200 megabytes", "", artifactOf(entity, 7),
			func(_, _ *etree.Element) string { return strings.Repeat("x", 200<<20) }, 1,
		},
		{
			"attack 168: an answer to another request", "", artifactOf(entity, 7),
			func(r, a *etree.Element) string { r.CreateAttr("ID", "_other"); return envelope(r, a) }, 1,
		},
		{"attack 168: no envelope", "", artifactOf(entity, 7), func(_, _ *etree.Element) string { return "no" }, 1},
		{"attack 141: the answer inside is changed", "", artifactOf(entity, 7), func(r, a *etree.Element) string {
			return strings.Replace(envelope(r, a), "alice@example.org", "admin@example.org", 1)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &resolver{wrap: tt.wrap}
			w := newWorld(t, Config{Metadata: tt.metadata}, func(w *world) { s.w, w.check = w, s.serve })
			request, _, state := w.begin(idp.Request{MaxAge: -1})
			s.request = request.SelectAttrValue("ID", "")
			if id, err := w.Finish(t.Context(), state, w.artifactArrives(tt.artifact)); err == nil {
				t.Errorf("Finish = %+v, want it refused", id)
			}
			if len(s.asked) != tt.asked {
				t.Errorf("asked %d times, want %d", len(s.asked), tt.asked)
			}
		})
	}
}
