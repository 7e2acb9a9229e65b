// Post-trigger of the feed container: keeps the 100 newest posts.
// Queries in a post-trigger see the feed as it was before the write. The trigger therefore counts
// the other posts and adds one for the written post: a post that was in the feed before counts
// once, and is not mistaken for an old one.
function truncateFeed() {
  var MAX_POSTS = 100;
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var written = getContext().getResponse().getBody();
  var writtenId = [{ name: '@id', value: written.id }];

  function checkAccepted(accepted) {
    if (!accepted) {
      throw new Error(503, 'truncateFeed exceeded its time limit; nothing was changed');
    }
  }

  function countOthers() {
    var query = { query: 'SELECT VALUE COUNT(1) FROM f WHERE f.id != @id', parameters: writtenId };
    checkAccepted(collection.queryDocuments(self, query, function (err, rows) {
      if (err) throw err;
      var excess = rows[0] + 1 - MAX_POSTS;
      if (excess > 0) findOldest(excess);
    }));
  }

  function findOldest(excess) {
    var query = {
      query: 'SELECT TOP ' + excess + ' * FROM f WHERE f.id != @id ORDER BY f.creationDate',
      parameters: writtenId
    };
    var options = { pageSize: excess };
    checkAccepted(collection.queryDocuments(self, query, options, function (err, oldest) {
      if (err) throw err;
      // The written post may itself be one of the oldest.
      var last = oldest.length - 1;
      if (written.creationDate < oldest[last].creationDate) oldest[last] = written;
      remove(oldest);
    }));
  }

  function remove(posts) {
    if (posts.length === 0) return;
    checkAccepted(collection.deleteDocument(posts[0]._self, function (err) {
      if (err) throw err;
      remove(posts.slice(1));
    }));
  }

  countOthers();
}
