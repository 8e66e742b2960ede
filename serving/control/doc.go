// Package control runs controllers within the server: those of load bands, of counts of replicas, of requests that
// are held and of tiers, and what shows how busy the busiest hosts are, each as a [serving.Module]; and the file that
// keeps the state of a controller. Failover and versions have rooms of their own below it.
package control
