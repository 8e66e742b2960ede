// Package operate holds the commands for what runs: the stored policies and which of them is in
// production, the store itself, API keys, and a router's leases, replicas and trials.
package operate
