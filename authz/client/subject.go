package client

// The subject types of OpenID Connect Core 8.
const (
	SubjectPublic   = "public"
	SubjectPairwise = "pairwise"
)

// Sector is the host of the client's redirect URIs: clients of one sector know a person by one pairwise subject.
// (OpenID Connect Core 8.1) Empty: the client knows the public one. Validate has checked that there is only one host.
func (c *Client) Sector() string {
	if c.SubjectType != SubjectPairwise || len(c.RedirectURIs) == 0 {
		return ""
	}
	return RedirectOwner(c.RedirectURIs[0])
}

func (c *Client) checkSubjectType(p *Problems) {
	p.oneOf("subject_type", c.SubjectType, SubjectPublic, SubjectPairwise)
	if c.SubjectType != SubjectPairwise {
		return
	}
	sector := c.Sector()
	if sector == "" {
		p.Addf("subject_type: pairwise needs redirect_uris, whose host is the sector")
		return
	}
	for _, uri := range c.RedirectURIs {
		if RedirectOwner(uri) != sector {
			p.Addf("subject_type: pairwise needs redirect_uris of one host, not both %s and %s", sector, RedirectOwner(uri))
			return
		}
	}
}
