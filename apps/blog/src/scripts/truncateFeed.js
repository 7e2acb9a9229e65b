// Post-trigger of the feed container: deletes all but the 100 newest posts.
// The queries exclude the written item, and the trigger adds it to the results, so it does not
// matter whether a query in a trigger sees the written item. If the written item is older than the
// 100 newest posts, the trigger deletes it.
function truncateFeed() {
  var MAX_POSTS = 100;
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var written = getContext().getResponse().getBody();
  var others = [{ name: '@id', value: written.id }];

  function checkAccepted(accepted) {
    if (!accepted) {
      throw new Error(503, 'truncateFeed exceeded its time limit; nothing was changed');
    }
  }

  function countOthers() {
    var query = { query: 'SELECT VALUE COUNT(1) FROM f WHERE f.id != @id', parameters: others };
    checkAccepted(collection.queryDocuments(self, query, function (err, rows) {
      if (err) throw err;
      var excess = rows[0] + 1 - MAX_POSTS;
      if (excess > 0) findOldest(excess);
    }));
  }

  function findOldest(excess) {
    var query = {
      query: 'SELECT TOP ' + excess + ' * FROM f WHERE f.id != @id ORDER BY f.creationDate',
      parameters: others
    };
    var options = { pageSize: excess };
    checkAccepted(collection.queryDocuments(self, query, options, function (err, posts) {
      if (err) throw err;
      posts.push(written);
      posts.sort(function (a, b) {
        return a.creationDate < b.creationDate ? -1 : a.creationDate > b.creationDate ? 1 : 0;
      });
      remove(posts.slice(0, excess), 0);
    }));
  }

  function remove(posts, index) {
    if (index === posts.length) return;
    checkAccepted(collection.deleteDocument(posts[index]._self, function (err) {
      if (err) throw err;
      remove(posts, index + 1);
    }));
  }

  countOthers();
}
