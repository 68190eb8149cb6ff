// Package trustedtest lets people in tests trust a browser without an application that asks them.
package trustedtest

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Secret is the value in the cookie of every browser of Trust.
const Secret = "carried-by-the-browser"

// Trust makes a person trust a browser for 30 days from now on. It was used an hour later, from 192.0.2.77.
func Trust(tx storage.Tx, personID, id string, now time.Time) error {
	rec, err := person.Records.Get(tx, personID)
	if err != nil {
		return err
	}
	browser := trustedbrowser.Record{
		Secret: secret.Hash(Secret), Epoch: rec.Epoch, Since: now, Used: now.Add(time.Hour), ExpiresAt: now.Add(30 * 24 * time.Hour),
		Address: "192.0.2.77", Agent: "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
	}
	return trustedbrowser.Browsers.Create(tx, storage.Key(personID, id), browser, browser.ExpiresAt)
}
