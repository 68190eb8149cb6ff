package envoyauthz_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestEnvoyAsksOverGRPC asks a running Gatehouse as Envoy does: with and without a token, with made-up headers, while
// configurations are loaded, after the token has been revoked, and while the store fails.
func TestEnvoyAsksOverGRPC(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory envoy", "encryption_key "+servertest.TestKey
	address := "127.0.0.1:" + strings.TrimPrefix(servertest.FreeAddr(t), "localhost:")
	s.Extra = `forward_auth orders {
		origins https://orders.example.com
		scopes orders.read
		headers Remote-Client client_id
		assertion
	}
	ext_authz ` + address
	s.MustLoad()
	token := s.Token()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // of a test
	envoy := authv3.NewAuthorizationClient(conn)
	about := func(host string, headers map[string]string) *authv3.CheckRequest {
		return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7"},
			}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Scheme: "https", Host: host,
				Path: "/orders?x=1", Headers: headers,
			}},
		}}
	}
	check := func(host string, headers map[string]string) (*authv3.CheckResponse, error) {
		return envoy.Check(t.Context(), about(host, headers), grpc.WaitForReady(true))
	}
	passes := func(what string) {
		t.Helper()
		res, err := check("orders.example.com",
			map[string]string{"authorization": "Bearer " + token, "remote-client": "root", "remote_client": "root", "x-original-url": "/"})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		set, removed := map[string]string{}, strings.Join(res.GetOkResponse().GetHeadersToRemove(), " ")
		for _, h := range res.GetOkResponse().GetHeaders() {
			set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
		if set["remote-client"] != "reports" || strings.Count(set["remote-assertion"], ".") != 2 || !strings.Contains(removed, "remote_client") ||
			!strings.Contains(removed, "x-original-url") {
			t.Fatalf("%s: %v", what, res)
		}
	}
	passes("with a token")
	if res, err := check("orders.example.com", nil); err != nil || res.GetDeniedResponse().GetStatus().GetCode() != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", res, err)
	}
	if res, err := check("orders.example.com/../x", map[string]string{"authorization": "Bearer " + token}); err != nil ||
		res.GetDeniedResponse().GetStatus().GetCode() != http.StatusBadRequest {
		t.Errorf("a host that is none: %v, %v", res, err)
	}
	for range 3 { // each is another configuration
		s.Extra += "\n"
		s.MustLoad()
		passes("after a reload")
	}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/revoke", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	s.Do(r)
	if res, err := check("orders.example.com", map[string]string{"authorization": "Bearer " + token}); err != nil ||
		res.GetDeniedResponse().GetStatus().GetCode() != http.StatusUnauthorized {
		t.Errorf("with a revoked token: %v, %v", res, err)
	}
	broken := fmt.Errorf("%w: /secret/path is on fire", storage.ErrUnavailable)
	servertest.MemoryOf(t, "envoy").Fail.Store(&broken)
	res, err := envoy.Check(t.Context(), about("orders.example.com", map[string]string{"authorization": "Bearer " + token}))
	if grpcstatus.Code(err) != codes.Unavailable || res != nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("while the store fails: %v, %v, want UNAVAILABLE", res, err)
	}
	servertest.MemoryOf(t, "envoy").Fail.Store(nil)
}
