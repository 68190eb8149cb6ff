package authztest

import "github.com/gatehouse-id/gatehouse/storage"

// Linked implements authz.Subjects.
func (p *People) Linked(_ storage.Tx, provider, issuer, subject string) (person string, vouched bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if person := p.linked[provider+" "+issuer+" "+subject]; person != "" {
		return person, p.vouching, nil
	}
	return "", false, storage.ErrNotFound
}

// VouchForLinks says of all identities at providers that someone else has vouched for them.
func (p *People) VouchForLinks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vouching = true
}

// Link links an identity at a provider to a person. An empty person unlinks it.
func (p *People) Link(provider, issuer, subject, person string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.linked == nil {
		p.linked = map[string]string{}
	}
	p.linked[provider+" "+issuer+" "+subject] = person
}
