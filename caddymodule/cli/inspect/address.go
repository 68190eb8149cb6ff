package inspect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

const (
	timeout = 5 * time.Second // of an address
	maxBody = 1 << 20
)

// OpenSites asks the root of each protected site without credentials. Whatever the configuration says: a site that
// answers with its content is open.
func OpenSites(ctx context.Context, sites []string) (out []diagnostic.Finding) {
	client := &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// Nothing secret is sent, and only the status is read: a certificate of Caddy's own authority is as good.
		Transport: &http.Transport{ //nolint:gosec // see above
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			Proxy:           http.ProxyFromEnvironment,
		},
	}
	defer client.CloseIdleConnections()
	for _, site := range sites {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/", nil)
		if err != nil {
			continue
		}
		resp, err := client.Do(req)
		if err != nil {
			out = append(out, diagnostic.Finding{
				Severity: diagnostic.Warning, Reason: "the protected site " + site + " cannot be asked from here whether it is open",
				Fix: "run the command where the address of the site leads to Caddy",
			})
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			out = append(out, diagnostic.Finding{
				Severity: diagnostic.Error,
				Reason:   fmt.Sprintf("the protected site %s answers %d to a request without credentials", site, resp.StatusCode),
				Fix:      "look for what answers before `protect`, in Caddy or in front of it, or name the open path with `public`",
			})
		}
	}
	return out
}

// Reach asks the issuer's own address for its metadata: what clients will find there must be this issuer. (RFC 8414
// 3.3)
func Reach(ctx context.Context, issuer string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/.well-known/openid-configuration", nil)
	if err != nil {
		return err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot be reached from here: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answers %d: does a site with the directive gatehouse have this address?", resp.StatusCode)
	}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&metadata); err != nil {
		return fmt.Errorf("does not answer with its metadata: %w", err)
	}
	if metadata.Issuer != issuer {
		return fmt.Errorf("is another issuer, %s", metadata.Issuer)
	}
	return nil
}
