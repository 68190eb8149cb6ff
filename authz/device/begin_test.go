package device_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestStrangersLeaveRoomForDevices: anyone can begin as a public client, whose devices must not wait for strangers.
func TestStrangersLeaveRoomForDevices(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 1565: as many requests of devices as a client may begin", func(t *testing.T, h *authztest.Harness) {
		begin := func(client string) *authztest.Response {
			return h.Call("/oauth/device_authorization", client, url.Values{"scope": {"openid"}})
		}
		authztest.WantStatus(t, "radio", begin("radio"), http.StatusOK)
		// What 20,000 requests leave behind takes a minute to make, so the count of the first one is raised.
		if err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
			raw, err := tx.Get([]byte("authz_device_begun/radio"))
			if err != nil {
				return err
			}
			var count map[int]any
			if err := cbor.Unmarshal(raw, &count); err != nil {
				return err
			}
			count[2] = 20_000
			if raw, err = cbor.Marshal(count); err != nil {
				return err
			}
			for _, client := range []string{"radio", "tv"} {
				if err := tx.Put([]byte("authz_device_begun/"+client), raw, h.Clock.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		authztest.WantStatus(t, "a client that has shown its secret", begin("radio"), http.StatusTooManyRequests)
		authztest.WantStatus(t, "a public client", begin("tv"), http.StatusOK)
	}, authztest.WithTV())
}
