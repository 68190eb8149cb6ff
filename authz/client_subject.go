package authz

// The subject types of OpenID Connect Core 8.
const (
	subjectPublic   = "public"
	subjectPairwise = "pairwise"
)

// sector is the host of the client's redirect URIs: clients of one sector know a person by one pairwise subject. (OpenID Connect Core
// 8.1) Empty: the client knows the public one. Validate has seen to it that there is one host.
func (c *Client) sector() string {
	if c.SubjectType != subjectPairwise || len(c.RedirectURIs) == 0 {
		return ""
	}
	return redirectOwner(c.RedirectURIs[0])
}

func (c *Client) checkSubjectType(p *problems) {
	p.oneOf("subject_type", c.SubjectType, subjectPublic, subjectPairwise)
	if c.SubjectType != subjectPairwise {
		return
	}
	sector := c.sector()
	if sector == "" {
		p.addf("subject_type: pairwise needs redirect_uris, whose host is the sector")
		return
	}
	for _, uri := range c.RedirectURIs {
		if redirectOwner(uri) != sector {
			p.addf("subject_type: pairwise needs redirect_uris of one host, not both %s and %s", sector, redirectOwner(uri))
			return
		}
	}
}
