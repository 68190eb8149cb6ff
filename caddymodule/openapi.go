package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

const (
	openAPIPath    = "/api/openapi.json"
	openAPIVersion = "1.0.0" // of the APIs (identity service document, "Versioning")
)

// operations describes every operation of the JSON APIs of the identity service.
func operations() []openapi.Operation {
	own := openapi.Operation{
		Method: http.MethodGet, Path: openAPIPath, ID: "getOpenAPI", Tag: "description", Summary: "Reads this document", Public: true,
		Answers: []openapi.Answer{{Status: http.StatusOK, Body: map[string]any{}}},
	}
	return slices.Concat(settings.Operations(), api.Operations(), access.Operations(), describeAuthZEN(),
		[]openapi.Operation{describeExplain(), own})
}

// openAPI serves GET /api/openapi.json to everyone: the description is the same for all installations but for the
// issuer. It is made at the first request: few ask for it, and no start or reload waits for it.
type openAPI struct {
	document func() (document, error)
	log      *zap.Logger
}

type document struct {
	body []byte
	etag string
}

func newOpenAPI(issuer string, log *zap.Logger) *openAPI {
	return &openAPI{sync.OnceValues(func() (document, error) {
		body, err := openapi.Document("Gatehouse identity service", openAPIVersion, issuer, operations())
		sum := sha256.Sum256(body)
		return document{body, `"` + hex.EncodeToString(sum[:12]) + `"`}, err
	}), log}
}

// Paths is the one path.
func (*openAPI) Paths() []string { return []string{openAPIPath} }

func (o *openAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		plain(w, http.StatusMethodNotAllowed, "Method not allowed.\n")
		return
	}
	doc, err := o.document()
	if err != nil {
		o.log.Error("describe the APIs", zap.Error(err))
		plain(w, http.StatusInternalServerError, "Internal error.\n")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json;charset=UTF-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", doc.etag)
	if r.Header.Get("If-None-Match") == doc.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(doc.body)))
	_, _ = w.Write(doc.body)
}
