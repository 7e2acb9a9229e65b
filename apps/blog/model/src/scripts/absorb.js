// Stores items of one post from another model: upserts the items, then sets the post's counters to
// the numbers of stored comments and likes, if the model keeps counters. The counters are counted
// and not incremented, so items may come twice and in any order; a comment may come before its
// post.
// A deleted post wins: if one of the items is the post's tombstone, or the tombstone is stored, the
// comments and likes of the post are deleted and no other item is stored.
// Returns the number of items stored or refused. If the time limit ends the run early, the caller
// passes the remaining items to another run; -1 means that comments and likes were deleted, more
// are left, and the caller repeats the run.
function absorb(postId, items, keepsCounters) {
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var postLink = collection.getAltLink() + '/docs/' + postId;
  var stored = 0;
  var deleted = 0;

  function checkAccepted(accepted) {
    if (!accepted) {
      throw new Error(503, 'absorb exceeded its time limit; nothing was changed');
    }
  }

  function finish(count) {
    getContext().getResponse().setBody(count);
  }

  function begin() {
    for (var i = 0; i < items.length; i++) {
      if (items[i].type === 'deletedPost') return bury(items[i]);
    }
    checkAccepted(collection.readDocument(postLink, function (err, post) {
      if (err && err.number !== 404) throw err;
      if (!err && post.type === 'deletedPost') return removeReactions();
      next();
    }));
  }

  function bury(tombstone) {
    checkAccepted(collection.upsertDocument(self, tombstone, function (err) {
      if (err) throw err;
      removeReactions();
    }));
  }

  function removeReactions() {
    var query = {
      query: 'SELECT * FROM c WHERE c.postId = @postId AND c.type IN ("comment", "like")',
      parameters: [{ name: '@postId', value: postId }]
    };
    var options = { pageSize: 100 };
    var accepted = collection.queryDocuments(self, query, options, function (err, page) {
      if (err) throw err;
      if (page.length === 0) return finish(items.length);
      remove(page, 0);
    });
    if (!accepted) finish(deleted > 0 ? -1 : 0);
  }

  function remove(page, index) {
    if (index === page.length) return removeReactions();
    var accepted = collection.deleteDocument(page[index]._self, function (err) {
      if (err) throw err;
      deleted++;
      remove(page, index + 1);
    });
    if (!accepted) finish(deleted > 0 ? -1 : 0);
  }

  function next() {
    if (stored === items.length) {
      return keepsCounters ? count('comment', 0, null, countLikes) : finish(stored);
    }
    var accepted = collection.upsertDocument(self, items[stored], function (err) {
      if (err) throw err;
      stored++;
      next();
    });
    // The items stored so far are kept; the run that stores the last items sets the counters.
    if (!accepted) finish(stored);
  }

  // Adds the pages of one COUNT query: a page may hold a part of the count.
  function count(type, sum, continuation, then) {
    var query = {
      query: 'SELECT VALUE COUNT(1) FROM c WHERE c.postId = @postId AND c.type = @type',
      parameters: [{ name: '@postId', value: postId }, { name: '@type', value: type }]
    };
    var options = continuation ? { continuation: continuation } : {};
    checkAccepted(collection.queryDocuments(self, query, options, function (err, rows, info) {
      if (err) throw err;
      for (var i = 0; i < rows.length; i++) sum += rows[i];
      if (info && info.continuation) return count(type, sum, info.continuation, then);
      then(sum);
    }));
  }

  function countLikes(comments) {
    count('like', 0, null, function (likes) { setCounters(comments, likes); });
  }

  function setCounters(comments, likes) {
    checkAccepted(collection.readDocument(postLink, function (err, post) {
      if (err && err.number !== 404) throw err;
      if (err || (post.commentCount === comments && post.likeCount === likes)) {
        return finish(stored);
      }
      post.commentCount = comments;
      post.likeCount = likes;
      var options = { etag: post._etag };
      checkAccepted(collection.replaceDocument(post._self, post, options, function (err) {
        if (err) throw err;
        finish(stored);
      }));
    }));
  }

  begin();
}
