package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patterns are the matchers of Envoy for names of headers.
type patterns struct {
	Patterns []struct {
		Exact  string `yaml:"exact"`
		Prefix string `yaml:"prefix"`
	} `yaml:"patterns"`
}

func (p patterns) match(name string) bool {
	name = strings.ToLower(name)
	for _, one := range p.Patterns {
		if one.Exact != "" && name == one.Exact || one.Prefix != "" && strings.HasPrefix(name, one.Prefix) {
			return true
		}
	}
	return false
}

// extAuthz is the part of the configuration of Envoy's filter that the guides use.
type extAuthz struct {
	Type             string `yaml:"@type"`
	FailureModeAllow bool   `yaml:"failure_mode_allow"`
	StatusOnError    struct {
		Code string `yaml:"code"`
	} `yaml:"status_on_error"`
	HTTPService struct {
		ServerURI struct {
			URI     string        `yaml:"uri"`
			Cluster string        `yaml:"cluster"`
			Timeout time.Duration `yaml:"timeout"`
		} `yaml:"server_uri"`
		PathPrefix           string `yaml:"path_prefix"`
		AuthorizationRequest struct {
			AllowedHeaders patterns `yaml:"allowed_headers"`
		} `yaml:"authorization_request"`
		AuthorizationResponse struct {
			AllowedUpstreamHeaders patterns `yaml:"allowed_upstream_headers"`
		} `yaml:"authorization_response"`
	} `yaml:"http_service"`
	TransportAPIVersion string `yaml:"transport_api_version"`
	GRPCService         struct {
		EnvoyGRPC struct {
			ClusterName string `yaml:"cluster_name"`
		} `yaml:"envoy_grpc"`
		Timeout time.Duration `yaml:"timeout"`
	} `yaml:"grpc_service"`
	EncodeRawHeaders       bool `yaml:"encode_raw_headers"`
	IncludePeerCertificate bool `yaml:"include_peer_certificate"`
}

// filter returns the configuration of ext_authz in a list of filters.
func filter(t *testing.T, text string) (c extAuthz) {
	t.Helper()
	var list struct {
		Filters []struct {
			Name   string    `yaml:"name"`
			Config yaml.Node `yaml:"typed_config"`
		} `yaml:"http_filters"`
	}
	readYAML(t, text, &list)
	for _, f := range list.Filters {
		if f.Name != "envoy.filters.http.ext_authz" {
			continue
		}
		raw, err := yaml.Marshal(&f.Config)
		if err != nil {
			t.Fatal(err)
		}
		readYAML(t, string(raw), &c)
		return c
	}
	t.Fatal("no ext_authz")
	return c
}

// fails does the work of Envoy without a decision.
func (c *extAuthz) fails(w http.ResponseWriter, r *http.Request, upstream http.Handler) {
	status := http.StatusForbidden
	for code := 500; code < 600; code++ {
		if name := strings.ReplaceAll(http.StatusText(code), " ", ""); name != "" && name == c.StatusOnError.Code {
			status = code
		}
	}
	if c.FailureModeAllow {
		upstream.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(status)
}

// forwarded sets what Envoy's connection manager sets.
func forwarded(r *http.Request) {
	r.Header.Set("X-Forwarded-Proto", "https")
	if list := r.Header.Values("X-Forwarded-For"); len(list) > 0 {
		r.Header.Set("X-Forwarded-For", strings.Join(list, ",")+","+clientOf(r))
		return
	}
	r.Header.Set("X-Forwarded-For", clientOf(r))
}

// same is the request itself behind a prefix, sent to an authorization server, with some of its headers.
func same(r *http.Request, server *url.URL, prefix string, allowed func(string) bool) (*http.Request, error) {
	u, err := url.ParseRequestURI(prefix + r.RequestURI)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = server.Scheme, server.Host
	req, err := http.NewRequestWithContext(r.Context(), r.Method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Host = r.Host
	for name, values := range r.Header {
		if name == "Authorization" || allowed(name) {
			req.Header[name] = values
		}
	}
	return req, nil
}

// envoy does what the proto file of Envoy's filter says about its HTTP service.
func (g *gateways) envoy(t *testing.T, at string, port int) {
	t.Helper()
	c := filter(t, g.foreign(example(t, g.document, "Envoy", "yaml"), "envoy", at))
	h := c.HTTPService
	server, err := url.Parse(h.ServerURI.URI)
	if err != nil || h.ServerURI.Timeout < time.Second {
		t.Fatalf("the server is %v (%v) with the timeout %v", server, err, h.ServerURI.Timeout)
	}
	upstream := pass(g.Echo, true)
	g.stands(t, port, func(w http.ResponseWriter, r *http.Request) {
		forwarded(r)
		req, err := same(r, server, h.PathPrefix, h.AuthorizationRequest.AllowedHeaders.match)
		var res *http.Response
		if err == nil {
			res, err = asks(http.DefaultTransport, h.ServerURI.Timeout, req)
		}
		switch {
		case err != nil, res.StatusCode >= http.StatusInternalServerError:
			c.fails(w, r, upstream)
			return
		case res.StatusCode != http.StatusOK:
			copies(w, res)
			return
		}
		for name, values := range res.Header {
			if h.AuthorizationResponse.AllowedUpstreamHeaders.match(name) {
				r.Header[name] = values[:1]
			}
		}
		for name := range strings.SplitSeq(res.Header.Get("X-Envoy-Auth-Headers-To-Remove"), ",") {
			delete(r.Header, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
		upstream.ServeHTTP(w, r)
	})
}

// gatewayAPI does what the filter ExternalAuth of HTTPRoute is specified to do: 200 alone is consent, any other answer
// is the client's, and only the headers named are copied. (GEP-1494)
func (g *gateways) gatewayAPI(t *testing.T, at string, port int) {
	t.Helper()
	var c struct {
		Filters []struct {
			Type         string `yaml:"type"`
			ExternalAuth struct {
				Protocol   string `yaml:"protocol"`
				BackendRef struct {
					Name string `yaml:"name"`
					Port int    `yaml:"port"`
				} `yaml:"backendRef"`
				HTTP struct {
					Path                   string   `yaml:"path"`
					AllowedHeaders         []string `yaml:"allowedHeaders"`
					AllowedResponseHeaders []string `yaml:"allowedResponseHeaders"`
				} `yaml:"http"`
			} `yaml:"externalAuth"`
		} `yaml:"filters"`
	}
	readYAML(t, example(t, g.document, "Gateway API", "yaml"), &c)
	if len(c.Filters) != 1 || c.Filters[0].Type != "ExternalAuth" || c.Filters[0].ExternalAuth.Protocol != "HTTP" {
		t.Fatalf("the filters are %+v", c.Filters)
	}
	f := c.Filters[0].ExternalAuth
	if ref := fmt.Sprintf("http://:%d {", f.BackendRef.Port); !strings.Contains(example(t, g.document, "Envoy", "caddyfile"), ref) {
		t.Fatalf("%s:%d is no address of Gatehouse", f.BackendRef.Name, f.BackendRef.Port)
	}
	upstream := pass(g.Echo, true)
	g.stands(t, port, func(w http.ResponseWriter, r *http.Request) {
		forwarded(r)
		named := func(name string) bool {
			return slices.ContainsFunc(f.HTTP.AllowedHeaders, func(one string) bool { return strings.EqualFold(one, name) })
		}
		req, err := same(r, &url.URL{Scheme: "http", Host: at}, f.HTTP.Path, named)
		var res *http.Response
		if err == nil {
			res, err = asks(http.DefaultTransport, time.Second, req)
		}
		switch {
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case res.StatusCode != http.StatusOK:
			copies(w, res)
			return
		}
		for _, name := range f.HTTP.AllowedResponseHeaders {
			if value := res.Header.Values(name); len(value) > 0 {
				r.Header[http.CanonicalHeaderKey(name)] = value
			}
		}
		upstream.ServeHTTP(w, r)
	})
}

// envoyGRPC does what Envoy does with the decisions of its gRPC service.
func (g *gateways) envoyGRPC(t *testing.T, at string, port int) {
	t.Helper()
	c := g.overGRPCFilter(t)
	upstream := pass(g.Echo, true)
	g.stands(t, port, func(w http.ResponseWriter, r *http.Request) {
		forwarded(r)
		out, err := g.check(t, at, r)
		if err != nil {
			c.fails(w, r, upstream)
			return
		}
		set := func(h http.Header, options []*corev3.HeaderValueOption) {
			for _, o := range options {
				name, value := http.CanonicalHeaderKey(o.GetHeader().GetKey()), o.GetHeader().GetValue()+string(o.GetHeader().GetRawValue())
				if o.GetAppendAction() == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
					h[name] = append(h[name], value)
					continue
				}
				h[name] = []string{value}
			}
		}
		if ok := out.GetOkResponse(); ok != nil && out.GetStatus().GetCode() == 0 {
			set(r.Header, ok.GetHeaders())
			for _, name := range ok.GetHeadersToRemove() {
				delete(r.Header, http.CanonicalHeaderKey(name))
			}
			upstream.ServeHTTP(w, r)
			return
		}
		set(w.Header(), out.GetDeniedResponse().GetHeaders())
		w.WriteHeader(int(out.GetDeniedResponse().GetStatus().GetCode()))
		io.WriteString(w, out.GetDeniedResponse().GetBody()) //nolint:errcheck // the client went away
	})
}

func (g *gateways) overGRPCFilter(t *testing.T) extAuthz {
	t.Helper()
	c := filter(t, example(t, g.overGRPC, "In Envoy", "yaml"))
	if c.TransportAPIVersion != "V3" || c.GRPCService.Timeout < time.Second {
		t.Fatalf("the filter is %+v", c)
	}
	return c
}

// perRoute is the configuration of the filter for a route.
type perRoute struct {
	PerFilter map[string]struct {
		Type          string `yaml:"@type"`
		CheckSettings struct {
			ContextExtensions map[string]string `yaml:"context_extensions"`
		} `yaml:"check_settings"`
	} `yaml:"typed_per_filter_config"`
}

// check asks as Envoy does about a request.
func (g *gateways) check(t *testing.T, at string, r *http.Request) (*authv3.CheckResponse, error) {
	c := g.overGRPCFilter(t)
	_, after, ok := strings.Cut(g.overGRPC, "\ntyped_per_filter_config:\n")
	after, _, closed := strings.Cut(after, "\n```\n")
	if !ok || !closed {
		return nil, errors.New("the guide has no configuration of a route")
	}
	var route perRoute
	readYAML(t, g.foreign("typed_per_filter_config:\n"+after, "envoy-grpc", at), &route)
	about := &authv3.AttributeContext_HttpRequest{Method: r.Method, Scheme: "https", Host: r.Host, Path: r.RequestURI}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if !c.EncodeRawHeaders {
			if about.Headers == nil {
				about.Headers = map[string]string{}
			}
			about.Headers[name] = strings.Join(values, ",")
			continue
		}
		if about.HeaderMap == nil {
			about.HeaderMap = &corev3.HeaderMap{}
		}
		for _, value := range values {
			about.HeaderMap.Headers = append(about.HeaderMap.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // of a test
	ctx, cancel := context.WithTimeout(r.Context(), c.GRPCService.Timeout*patience)
	defer cancel()
	return authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: clientOf(r)},
		}}},
		Request:           &authv3.AttributeContext_Request{Http: about},
		ContextExtensions: route.PerFilter["envoy.filters.http.ext_authz"].CheckSettings.ContextExtensions,
	}})
}
