package settings

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

const (
	// apiName is the name under which API clients are allowed the API. (api_client X { apis configuration })
	apiName = "configuration"
	// maxBody is the size in bytes of a body.
	maxBody = 512 << 10
	// MaxConfiguration is the size in bytes of a whole configuration with its key pairs: more than all units at their
	// limits.
	MaxConfiguration = 16 << 20
	// maxPathPart bounds the characters of a segment of a path, which the key of a message can have.
	maxPathPart = 256
)

// API serves both versions of the configuration API and the certificates. (identity service document, "Endpoints")
type API struct {
	s      *Service
	g      *jsonapi.Gate
	reload func(context.Context) error
	paths  []apiPath
}

// apiPath is the operations of one path.
type apiPath struct {
	segments []string // {name} is any one segment
	off      int
	api      string
	methods  map[string]jsonapi.Handler
}

// NewAPI returns the API over a service. reload reads the messages and files of the extension again; it is nil without
// an extension.
func NewAPI(s *Service, g *jsonapi.Gate, reload func(context.Context) error) *API {
	a := &API{s: s, g: g, reload: reload}
	for _, rt := range a.routes() {
		segments := strings.Split(rt.Path, "/")
		i := slices.IndexFunc(a.paths, func(p apiPath) bool { return slices.Equal(p.segments, segments) })
		if i < 0 {
			i = len(a.paths)
			a.paths = append(a.paths, apiPath{segments: segments, off: rt.off, api: rt.api, methods: map[string]jsonapi.Handler{}})
		}
		a.paths[i].methods[rt.Method] = a.entitle(rt, a.keepOut(rt))
	}
	return a
}

// administratorsAPI is the name under which an API client is allowed to change the login methods that sign in people
// with a role in the admin console. (api_client X { apis configuration administrators })
const administratorsAPI = "administrators"

// entitle serves an operation with the rights that the API client has.
func (a *API) entitle(rt route, serve jsonapi.Handler) jsonapi.Handler {
	if rt.api != apiName {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		rights := SignIn
		if a.g.Has != nil && a.g.Has(client, administratorsAPI) {
			rights = Owner
		}
		return serve(w, r.WithContext(WithRights(r.Context(), rights)), client)
	}
}

// ServeHTTP authenticates before it looks at anything else, the path included, so strangers learn nothing. (identity
// service document, "Authentication")
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, values := a.find(r.URL)
	if found == nil {
		a.g.Methods(apiName, func(*http.Request) error { return jsonapi.NotFound() }, nil).ServeHTTP(w, r)
		return
	}
	for name, v := range values {
		r.SetPathValue(name, v)
	}
	a.g.Methods(found.api, func(r *http.Request) error { return a.on(r.Context(), found.off) }, found.methods).ServeHTTP(w, r)
}

// by is the API client of a request.
func (s *Service) by(r *http.Request, client string) audit.Actor {
	return audit.Actor{ID: client, Origin: s.origin(r)}
}

// on refuses while the API is switched off.
func (a *API) on(ctx context.Context, off int) error {
	u, err := a.s.Current(ctx)
	if err != nil {
		return err
	}
	if !u.Features.ConfigurationAPIEnabled {
		return switchedOff(off)
	}
	return nil
}

// On refuses a request while the API is switched off, for what belongs to it and is served elsewhere.
func (a *API) On(r *http.Request) error { return a.on(r.Context(), http.StatusConflict) }

// find returns the path that matches a URL, and the values of its names. Of several paths it returns the one with the
// most fixed segments. Each segment is unescaped by itself.
func (a *API) find(u *url.URL) (found *apiPath, values map[string]string) {
	segments := strings.Split(u.EscapedPath(), "/")
	for i, raw := range segments {
		s, err := url.PathUnescape(raw)
		if err != nil || utf8.RuneCountInString(s) > maxPathPart || i > 0 && !isSegment(s) {
			return nil, nil
		}
		segments[i] = s
	}
	for i := range a.paths {
		p := &a.paths[i]
		if v, ok := p.match(segments); ok && (found == nil || len(v) < len(values)) {
			found, values = p, v
		}
	}
	return found, values
}

// isSegment reports whether a segment is a possible value of a name.
func isSegment(s string) bool {
	return s != "" && s != "." && s != ".." && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '/' || c == '\\' })
}

func (p *apiPath) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(p.segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, s := range p.segments {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			values[strings.TrimSuffix(name, "}")] = segments[i]
		} else if s != segments[i] {
			return nil, false
		}
	}
	return values, true
}
