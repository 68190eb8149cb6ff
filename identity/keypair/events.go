package keypair

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of this package.
var (
	certificateAdded   = event.Type{Type: "configuration.CertificateAddedEvent", Name: "Certificate Added"}
	certificateUpdated = event.Type{Type: "configuration.CertificateUpdatedEvent", Name: "Certificate Updated"}
	certificateRemoved = event.Type{Type: "configuration.CertificateRemovedEvent", Name: "Certificate Removed"}
)
