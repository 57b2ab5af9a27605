// A browser starts no worker from a page that it opened from a folder, and the search of the site is a worker. There it
// runs in a hidden frame instead, with the same two ways of speaking: postMessage and the event "message".
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = async (...urls) => { for (const each of urls) await this.load(each) }
      this.ready = this.load(url)
    }
    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.inside.document.createElement("script")
        Object.assign(script, { src: url, onload: loaded, onerror: () => failed(new Error(`${url} is not there`)) })
        this.inside.document.body.append(script)
      })
    }
    async postMessage(data) {
      await this.ready
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
  window.Worker = window.IFrameWorker
}
