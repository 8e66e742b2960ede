package admission

// LeaseStatus is one lease as operators see it.
type LeaseStatus struct {
	ID string `json:"id"`
	// Key is the name of the API key that took it; empty without one.
	Key          string  `json:"key"`
	Task         string  `json:"task"`
	Variant      string  `json:"variant"`
	Replica      string  `json:"replica"`
	PromptTokens int     `json:"prompt_tokens"`
	AgeS         float64 `json:"age_s"`
	ExpiresS     float64 `json:"expires_s"`
}

// Leases is the body of GET /admin/leases, and of an order to revoke some: those that
// are held then.
type Leases struct {
	Leases  []LeaseStatus `json:"leases"`
	Revoked int           `json:"revoked"`
}
